"""Types of the async facades. Type-checked, never run."""

from typing import Any, assert_type

import tenure


async def surface(ajobs: tenure.AsyncJobs) -> None:
    assert_type(tenure.Jobs("memory://").aio, tenure.AsyncJobs)
    assert_type(ajobs.sync, tenure.Jobs)
    assert_type(await ajobs.enqueue("send", {"to": "ada"}, queue="mail", priority=3), str)
    assert_type(await ajobs.enqueue_many([tenure.NewJob("send")]), list[str])
    assert_type(await ajobs.get("a"), tenure.Job | None)
    assert_type(await ajobs.explain("a"), tenure.Explanation | None)
    assert_type(await ajobs.stats(), tenure.Stats)
    assert_type(await ajobs.migrate(), tenure.Schema)
    assert_type(await ajobs.cancel(queue="mail", reason="why"), list[tenure.Moved])
    assert_type(await ajobs.purge(older_than=60), int)
    assert_type([job async for job in ajobs.find(state="failed")], list[tenure.Job])
    async with ajobs as opened, await opened.claim(limit=10, wait=5) as claims:
        assert_type(claims, tenure.AsyncClaims)
        assert_type(claims.sync, tenure.Claims)
        for claim in claims:
            assert_type(claim, tenure.AsyncClaim)
            assert_type(claim.sync, tenure.Claim)
            assert_type(claim.job, tenure.Job)
            assert_type(await ajobs.attach(claim.id, fence=claim.fence, token=claim.token), tenure.AsyncClaim)
            async with claim as entered:
                assert_type(entered, tenure.AsyncClaim)
                assert_type(claim.result, Any)
                await claim.progress(3, of=10, note="three")


async def mistakes(ajobs: tenure.AsyncJobs, claim: tenure.AsyncClaim) -> None:
    await ajobs.enqueue(7)  # type: ignore[arg-type]
    await ajobs.enqueue("send", prioritty=3)  # type: ignore[call-arg]
    await ajobs.claim(queue="mail")  # type: ignore[call-arg]
    await ajobs.retry(status="failed")  # type: ignore[call-arg]
    await claim.fail()  # type: ignore[call-arg]
    with claim:  # type: ignore[attr-defined]
        pass
