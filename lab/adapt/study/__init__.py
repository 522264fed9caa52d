"""What a result of the AdaptRaid study is told with: tables, plots and claims of its own."""
