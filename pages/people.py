"""People: accounts with roles and usage, and the audit log. For admins."""

import streamlit as st

from app.links import addresses
from app.people import account, table
from app.people.audit_log import audit_log
from app.people.dialogs import adding, adding_list
from app.people.table import Known
from app.ui import components, current_user
from app.ui.html import as_text
from app.ui.store_access import reading

VIEWS = ("Accounts", "Audit log")

st.title("People", anchor=False)
if current_user.standing().open:
    account.no_accounts()
    st.stop()
if refusal := current_user.why_not("add person"):
    st.write(as_text(refusal))
    st.stop()
table.open_asked()
with reading() as reader:
    token, everyone, known = (
        reader.runs.token(),
        reader.people.everyone(),
        Known(reader.quotas.holdings(), table.disk(reader), reader.quotas.last_seen(), table.own_quotas()),
    )
view = st.segmented_control(
    "View", VIEWS, required=True, label_visibility="collapsed", **addresses.kept("view", VIEWS[0], VIEWS)
)
if view == VIEWS[1]:
    audit_log(everyone)
    st.stop()
adding()
adding_list()
for one in table.searched(everyone):
    table.entry(one, known)
table.strangers(everyone, known)
components.pulse(token, active=table.are_ending(everyone, known))
