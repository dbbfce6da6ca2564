"""Attack every door of stamo and say what held: `make campaign`; ten minutes, or a night, seeded.

`documents`, `artifacts` and `bombs`: damaged and odd content, and small files that stand for much.
`growth`: texts that follow a grammar in their pieces only, and time against size. `faults`: sudden
death and full disks at every step of the work. `power`: power cuts for the label log. `races`: many
who change one workspace at once. `service`: requests made from the service's own schema, odd
headers, slow and many clients, and its death while people label.
"""
