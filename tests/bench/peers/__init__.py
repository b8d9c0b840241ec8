"""The libraries that phitap is measured beside."""
