-- Sorting compares first columns quickly, and others slowly: with the target first this index is made in a third of the time.
DROP INDEX graph.edges_target;
CREATE INDEX edges_target ON graph.edges (target_idx, scenario_id, layer_id);
