"""How far answers may be off: replicates of the noise and of what the plan left out."""
