from django.db import models


class Order(models.Model):
    total = models.IntegerField()
    state = models.TextField(default="placed")

    def __str__(self) -> str:
        return f"order {self.pk}"


class Parcel(models.Model):
    """Created by a job. Two parcels for one order would be a bug."""

    order = models.ForeignKey(Order, on_delete=models.CASCADE)

    def __str__(self) -> str:
        return f"parcel {self.pk}"
