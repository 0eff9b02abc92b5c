"""Reading a table: which of its files a scan needs, and their rows in the table's schema."""
