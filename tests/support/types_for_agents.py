"""Types of answers of a shop."""

from datetime import date

from pydantic import BaseModel

from roboco import check


class Booking(BaseModel):
    """A table in a restaurant."""

    day: date
    people: int


Bookings = list[Booking]


@check
def at_most_eight(bookings: Bookings) -> None:
    """Raise ValueError if a table is too small."""
    if any(booking.people > 8 for booking in bookings):
        raise ValueError("no table has more than 8 seats; split the group")
