"""Tables, plots and claims for results of the AdaptRaid study."""
