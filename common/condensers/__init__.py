"""What a condenser is: specifications of those that come with fedtag."""
