-- A check of each row of COPY, by a query, takes longer than all the rest of a store. What deletes a scenario deletes its rows.
ALTER TABLE graph.edges DROP CONSTRAINT edges_scenario_id_fkey;
ALTER TABLE graph.vertices DROP CONSTRAINT vertices_scenario_id_fkey;
ALTER TABLE graph.vertex_labels DROP CONSTRAINT vertex_labels_scenario_id_fkey;
