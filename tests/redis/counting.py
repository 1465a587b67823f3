"""How much a script has to do, counted within it: its commands, and the values that go into these and come out."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from tenure.backends.redis import Redis
from tenure.backends.redis.encoding import Argument
from tenure.backends.redis.job_waiter import JobWaiter
from tenure.backends.redis.script import Script
from tenure.backends.redis.server import Server
from tenure.testing import Clock
from tests.redis.stores import Place

COUNTED = """
local done = 0
local function count(value)
  if type(value) ~= "table" then
    done = done + 1
    return
  end
  for _, each in ipairs(value) do
    count(each)
  end
end

local real = redis
local redis = setmetatable({}, { __index = real })
function redis.call(...)
  local answer = real.call(...)
  count({ ... })
  count(answer)
  return answer
end

local function run()
%s
end

local answer = run()
return { done, answer }
"""


@cache
def counted(script: Script) -> Script:
    """Return a script that does the same, and tells how much that was."""
    text = COUNTED % script.text
    return replace(script, text=text, sha=hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


class CountingServer(Server):
    done = 0
    requests = 0

    def run(self, script: Script, arguments: Sequence[Argument], *, may_repeat: bool = True) -> Any:
        done, *answer = super().run(counted(script), arguments, may_repeat=may_repeat)
        self.done += done
        self.requests += 1
        return answer[0] if answer else None


class CountingStore(Redis):
    """A store that knows how much its scripts have done."""

    def __init__(self, place: Place, clock: Clock) -> None:
        super().__init__(place.url, clock=clock)
        self.close()
        self._server: CountingServer = CountingServer(self._server.address, clock=clock)
        self._waiter = JobWaiter(self._server)

    def cost(self, action: Callable[["CountingStore"], object]) -> int:
        """Return how much had to be done for this."""
        before = self._server.done
        action(self)
        return self._server.done - before

    def cost_of_a_request(self, action: Callable[["CountingStore"], object]) -> float:
        """Return how much had to be done for each request that this made, however many these were."""
        before, requests = self._server.done, self._server.requests
        action(self)
        return (self._server.done - before) / (self._server.requests - requests)
