"""Contacts of a robot with the ground: compliant, with friction, solved implicitly in each step of a simulation."""

from ._ground import AbstractGround as AbstractGround, FlatGround as FlatGround
from ._ground_contacts import GroundContacts as GroundContacts, ground_contacts as ground_contacts
from ._state import ContactState as ContactState, contact_state as contact_state
