-- SQLite looks up the scenario of each row that is written, and deletes row by row what it could drop as whole pages. What deletes a scenario deletes its rows.
-- Constraints are only text of the schema, which its manual ("ALTER TABLE", section "Making Other Kinds Of Table Schema Changes") has changed in this way.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, ' REFERENCES graph_scenarios (id)', '')
	WHERE type = 'table' AND name IN ('graph_vertices', 'graph_edges', 'graph_vertex_labels');
PRAGMA writable_schema = RESET;
