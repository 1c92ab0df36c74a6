"""Who leads: the active node and the hot standby are one and the same node, which changes its part.

| this node | the lease | it |
| --- | --- | --- |
| follows | is another's, or nobody's yet | drains up to the other's watermark and sends nothing |
| leads | is its own | drains each second as it begins, and publishes |
| leads | has lapsed, and nobody is known to have it | drains what is on time, sends nothing, tries again |

To lead again after a lapse is to go on: what is open is sent again, and collapses where it was stored. Only
when somebody else has the lease does a node follow: what it has drained beyond the other's watermark waits
until the other has settled it, or until this node leads again.
"""

import asyncio
import logging
from collections.abc import Callable

from nats.errors import Error as NatsError

from mainspring.changelog_tailer import Cursor
from mainspring.engine.broker.bucket import Bucket
from mainspring.engine.broker.connections import Broker
from mainspring.engine.clock import Clock
from mainspring.engine.failover.clock_guard import AGREES_S
from mainspring.engine.failover.lease import Lease
from mainspring.engine.failover.recovery import RecoveryPoint, read_recovery_point
from mainspring.engine.generation import Generation
from mainspring.engine.publishing.publisher import Publisher
from mainspring.engine.publishing.settlement import Settlement

log = logging.getLogger(__name__)

# A lease that ends unseen is looked at this often.
_LOOK_S = 0.05


class Handover:
    """Leads or follows as the lease says; without one it leads.

    `generation` gives the present one, whose part is set with it whenever it is made anew.
    """

    def __init__(
        self,
        lease: Lease | None,
        *,
        bucket: Bucket,
        broker: Broker,
        publisher: Publisher,
        settlement: Settlement[Cursor],
        generation: Callable[[], Generation],
        clock: Clock,
    ) -> None:
        self.leads = False
        self._lease = lease
        self._bucket = bucket
        self._broker = broker
        self._publisher = publisher
        self._settlement = settlement
        self._generation = generation
        self._clock = clock
        self._term = 0
        self._lapsed = False

    @property
    def active(self) -> bool:
        """Whether this node may publish now."""
        return self.leads and (self._lease is None or self._lease.held)

    @property
    def sure(self) -> bool:
        """Whether this node's part is known: amid a lapse another may have taken over unseen."""
        return not self.leads or self.active

    async def begin(self) -> None:
        """Take up the part that the lease gives, before any other loop runs."""
        self._publisher.mute(self._settlement.elsewhere)
        if self._lease is None or self._lease.held:
            await self._lead()
        else:
            self._follow()

    async def take_part(self) -> None:
        """Give a generation that was made anew the part that this node has."""
        if self.leads:
            await self._generation().lead()
        else:
            self._generation().follow(self.arrive)

    async def run(self) -> None:
        """Change the part whenever the lease changes hands; for ever."""
        if self._lease is None:
            await asyncio.Event().wait()
            return
        loops = [self._lease.give_way(), self._watch(self._lease)]
        await asyncio.gather(*loops)

    async def _watch(self, lease: Lease) -> None:
        while True:
            await self._step(lease)
            lease.changed.clear()
            try:
                async with asyncio.timeout(_LOOK_S):
                    await lease.changed.wait()
            except TimeoutError:
                pass

    async def _step(self, lease: Lease) -> None:
        if not self.leads:
            if lease.held:
                await self._lead()
        elif not lease.held:
            await self._lapse(lease)
        elif lease.term != self._term or self._lapsed:
            await self._go_on(lease)

    # ------------------------------------------------------------------------------------ the changes

    async def _lead(self) -> None:
        """What the other has settled last is read once more: it may have written after the last look."""
        if (point := await self._last_point()) is not None:
            self.arrive(point)
        if self._lease is not None:
            self._term = self._lease.term
            log.info("active: going on after second %d", self._settlement.elsewhere)
        await self._generation().lead()
        self.leads, self._lapsed = True, False
        self._publisher.unmute()

    async def _last_point(self) -> RecoveryPoint | None:
        if self._lease is None:
            return None
        try:
            return await read_recovery_point(self._bucket)
        except (NatsError, OSError, TimeoutError) as error:
            log.warning("the recovery point was not read again (%r): going on from the one before", error)
            return None

    def _follow(self) -> None:
        self.leads = False
        self._publisher.mute(self._settlement.elsewhere)
        self._generation().follow(self.arrive)
        if self._lease is not None and self._lease.stuck:
            log.warning("standby: %s", self._lease.stuck)
        elif self._lease is not None and self._lease.other:
            log.info("standby: %s is active", self._lease.other)

    async def _lapse(self, lease: Lease) -> None:
        if not self._lapsed:
            self._lapsed = True
            await self._broker.reconnect()  # with what is not yet sent
            log.warning("the lease has lapsed: nothing is sent until it is held again")
        if lease.other:
            self._follow()

    async def _go_on(self, lease: Lease) -> None:
        """Nobody took over, or whoever did is gone: the wheel and what is open are as good as before."""
        if not self._lapsed:
            await self._broker.reconnect()
        self._term, self._lapsed = lease.term, False
        log.info("the lease is held again: going on")
        self._publisher.resend_all()

    # -------------------------------------------------------------------------------------- following

    def arrive(self, point: RecoveryPoint) -> None:
        """Another node has settled all up to this point. One from the future is of a clock gone wrong."""
        if point.watermark > self._clock.now() + AGREES_S:
            self._publisher.look_up_until(point.watermark)
            return
        self._settlement.settled_elsewhere(point.watermark, point.gap)
        self._publisher.mute(self._settlement.elsewhere)
        self._generation().open_gate(point.watermark)
