"""Plans and approvals as bytes: their form, what must hold, what a night's plans are."""
