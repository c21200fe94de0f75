"""Account: identity, permissions, signed-in browsers, password and tokens."""

import streamlit as st

from app.launch import resource_summary
from app.people import account
from app.people.account import tokens
from app.ui import current_user
from app.ui.store_access import reading

if not current_user.has_account():
    st.title("Account", anchor=False)
    account.no_accounts()
    st.stop()
with reading() as reader:
    me = reader.people.one(current_user.whoever())
    there = reader.sign_ins.of(me.name)

st.title("Account", anchor=False)
if st.query_params.get("changed") == "password":
    st.success("Password changed. All other browsers are signed out.")
account.who(me)
st.header("Quota", anchor=False)
with reading() as reader:
    resource_summary.own(me.name, reader)
st.header("Browsers", anchor=False)
account.browsers(me, there)
st.header("Password", anchor=False)
account.password(me)
st.header("Tokens", anchor=False)
tokens(me)
