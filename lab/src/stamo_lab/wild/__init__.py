"""Real new entities: piles collected from later text, and mentions that people judged."""
