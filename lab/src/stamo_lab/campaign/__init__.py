"""Attack every door of stamo and say what held: `make campaign`; minutes, seeded, not a test.

`inputs`: damaged and odd content. `requests`: made from the service's own schema. `growth`: time
against size of hostile patterns. `faults`: sudden death and full disks at every step of the work in
`scenarios`. `clients`: slow, many and busy clients.
"""
