"""What the shop does later."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import close_old_connections, connection, transaction

import tenure
from shop.models import Order, Parcel

jobs = tenure.Jobs(settings.DATABASE_URL)


@jobs.around
@contextmanager
def with_a_usable_connection() -> Iterator[None]:
    """Do for each job what Django does for each request."""
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


@jobs.task(queue="shipping")
def ship(order_id: int) -> None:
    with transaction.atomic():
        order = Order.objects.select_for_update().get(pk=order_id)
        parcel = Parcel.objects.create(order=order)
        order.state = "shipped"
        order.save()
        thank.using(connection=connection).enqueue(order_id)
        # Last: the parcel, the state, the next job and the completion are one commit, or none of them is.
        tenure.current().complete({"parcel": parcel.pk}, connection=connection)


@jobs.task(queue="mail")
def thank(order_id: int) -> str:
    return f"thank you for order {order_id}"
