-- A check of each row of COPY, by a query, takes longer than all the rest of a store. What deletes a scenario deletes its edges.
ALTER TABLE graph.edges DROP CONSTRAINT edges_scenario_id_fkey;
