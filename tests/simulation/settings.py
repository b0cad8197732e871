"""The settings of the simulated worlds."""

from tests.simulation.mishaps import Setting

SETTINGS = {
    one.name: one
    for one in (
        Setting("two"),
        Setting("alone", replicas=1),
        Setting("one endpoint", endpoints=1),
        Setting("three endpoints", endpoints=3),
        Setting("liar", endpoints=3, lies=0.1),
        Setting("low cap", fee_cap=25),
        Setting("quick bumps", bump_blocks=1),
        Setting("slow bumps", bump_blocks=8, finality=12),
        Setting("short finality", finality=3),
        Setting("half noise", noise=0.5),
        Setting("twice the noise", noise=2.0),
        Setting("no noise", noise=0.0),
        # No room for fee bumps, and pools often drop transactions for good: only a resend helps.
        Setting("no bumps", fee_cap=13, attic=0.0, forgetful=0.25, operator=False),
        # Base fees that never fall again.
        Setting("dear for good", fee_cap=200, later_fee=60),
        # Builders require more than the blocks show, so nothing is mined at its first fee. A cap
        # that the first fee uses up would leave no room for a bump.
        Setting("dear tips", fee_cap=1_000, asked_tip=1.1, operator=False),
        # Small budgets for a transaction and for an hour.
        Setting("short account balance", call_cap=6, hour_cap=25),
    )
}
