from django.db import models


class Order(models.Model):
    total = models.IntegerField()
    state = models.TextField(default="placed")

    def __str__(self) -> str:
        return f"order {self.pk}"


class Parcel(models.Model):
    """What a job leaves behind. Two of one order would be a mistake."""

    order = models.ForeignKey(Order, on_delete=models.CASCADE)

    def __str__(self) -> str:
        return f"parcel {self.pk}"
