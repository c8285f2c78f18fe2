"""Starting processes on hosts that come and go: the parts of which tede.distributed.run is made."""
