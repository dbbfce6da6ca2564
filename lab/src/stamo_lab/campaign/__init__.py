"""Attack every door of stamo and say what held: `make campaign`; minutes, seeded, not a test.

`documents` and `artifacts`: damaged and odd content. `growth`: texts that follow a grammar in their
pieces only, and time against size. `faults`: sudden death and full disks at every step of the work.
`service`: requests made from the service's own schema, odd headers, many clients.
"""
