"""What every study needs: target, data, undo session, ownership, and a look at who else is there."""
