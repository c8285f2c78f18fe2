"""The parts of a loader: collate (items to a batch), fetch (numbers to items), worker (the processes), transport."""
MP_STATUS_CHECK_INTERVAL = 5.0
