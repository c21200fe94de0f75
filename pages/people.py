"""People: who has an account, with which role, and what they hold; and the audit log of everything that anyone did. For
admins.
"""

import streamlit as st

from app import account, people_list, person
from app.asking import reading
from app.audit_log import audit_log
from app.markup import as_text
from app.people_adding import adding
from app.people_disk import disk
from app.people_list import Known

VIEWS = ("Accounts", "Audit log")

st.title("People", anchor=False)
if person.standing().open:
    account.no_accounts()
    st.stop()
if refusal := person.why_not("add person"):
    st.write(as_text(refusal))
    st.stop()
people_list.open_asked()
with reading() as reader:
    everyone, known = reader.people(), Known(reader.holdings(), disk(reader), reader.last_seen())
view = st.segmented_control(
    "View", VIEWS, key="view", default=VIEWS[0], required=True, bind="query-params", label_visibility="collapsed"
)
if view == VIEWS[1]:
    audit_log(everyone)
    st.stop()
adding()
for one in everyone:
    people_list.entry(one, known)
people_list.strangers(everyone, known)
