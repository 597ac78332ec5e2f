"""What every operator's description is made of: fields, facts, rules, records, reports."""
