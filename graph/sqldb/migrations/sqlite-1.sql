CREATE TABLE graph_scenarios (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	name TEXT NOT NULL UNIQUE,
	created_at TEXT NOT NULL, -- RFC 3339, UTC
	base_scenario_id INTEGER REFERENCES graph_scenarios (id),
	description TEXT
);
CREATE TABLE graph_vertices (
	scenario_id INTEGER NOT NULL REFERENCES graph_scenarios (id),
	vertex_index INTEGER NOT NULL,
	entity_id TEXT,
	name TEXT NOT NULL,
	PRIMARY KEY (scenario_id, vertex_index)
) WITHOUT ROWID;
CREATE TABLE graph_edges (
	scenario_id INTEGER NOT NULL REFERENCES graph_scenarios (id),
	layer_id INTEGER NOT NULL,
	source_idx INTEGER NOT NULL,
	target_idx INTEGER NOT NULL,
	weight REAL NOT NULL,
	name TEXT, -- NULL: source and target as numbers, with > between them
	PRIMARY KEY (scenario_id, layer_id, source_idx, target_idx)
) WITHOUT ROWID;
CREATE INDEX graph_edges_target ON graph_edges (scenario_id, layer_id, target_idx);
CREATE UNIQUE INDEX graph_edges_name ON graph_edges (scenario_id, layer_id, name) WHERE name IS NOT NULL;
CREATE TABLE graph_labels (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	scenario_id INTEGER NOT NULL REFERENCES graph_scenarios (id),
	type TEXT NOT NULL,
	value TEXT NOT NULL,
	UNIQUE (scenario_id, type, value)
);
CREATE TABLE graph_vertex_labels (
	scenario_id INTEGER NOT NULL REFERENCES graph_scenarios (id),
	vertex_index INTEGER NOT NULL,
	label_id INTEGER NOT NULL REFERENCES graph_labels (id),
	PRIMARY KEY (scenario_id, vertex_index, label_id)
) WITHOUT ROWID;
CREATE INDEX graph_vertex_labels_label ON graph_vertex_labels (label_id);
CREATE TABLE graph_vertex_masks (
	scenario_id INTEGER NOT NULL,
	mask_id TEXT NOT NULL,
	vertex_index INTEGER NOT NULL,
	updated_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
	PRIMARY KEY (scenario_id, mask_id, vertex_index)
) WITHOUT ROWID;
