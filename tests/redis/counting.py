"""Count the work of a script from inside: its commands, with their arguments and results."""

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
    """Return a script that does the same and also returns the count."""
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
    """A store that counts the work of its scripts."""

    def __init__(self, place: Place, clock: Clock) -> None:
        super().__init__(place.url, clock=clock)
        self.close()
        self._server: CountingServer = CountingServer(self._server.address, clock=clock)
        self._waiter = JobWaiter(self._server)

    def cost(self, action: Callable[["CountingStore"], object]) -> int:
        """Return the work of an action."""
        before = self._server.done
        action(self)
        return self._server.done - before

    def cost_of_a_request(self, action: Callable[["CountingStore"], object]) -> float:
        """Return the work of each request of an action."""
        before, requests = self._server.done, self._server.requests
        action(self)
        return (self._server.done - before) / (self._server.requests - requests)
