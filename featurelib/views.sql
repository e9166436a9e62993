-- Views over the tables, in SQL that Spark, DuckDB and Polars read. A run is there once its row in
-- gold_audit_run is, which is written last.

CREATE VIEW latest_audit_run AS
SELECT * FROM gold_audit_run WHERE run IN (SELECT max(run) FROM gold_audit_run);

CREATE VIEW latest_cluster AS
SELECT * FROM gold_cluster WHERE run IN (SELECT max(run) FROM gold_audit_run);

CREATE VIEW latest_feature_readiness AS
SELECT * FROM gold_feature_readiness WHERE run IN (SELECT max(run) FROM gold_audit_run);

CREATE VIEW latest_finding AS
SELECT * FROM gold_finding WHERE run IN (SELECT max(run) FROM gold_audit_run);

-- The findings that nothing mutes, with the owner of the cluster.
CREATE VIEW latest_open_finding AS
SELECT f.*, c.owner, c.contact FROM latest_finding AS f
JOIN latest_cluster AS c ON f.cluster = c.cluster WHERE f.muted IS NULL;

CREATE VIEW latest_incompatible_broker AS
SELECT * FROM gold_incompatible_broker WHERE run IN (SELECT max(run) FROM gold_audit_run);

CREATE VIEW latest_node AS
SELECT * FROM gold_node WHERE run IN (SELECT max(run) FROM gold_audit_run);

CREATE VIEW latest_upgrade_plan AS
SELECT * FROM gold_upgrade_plan WHERE run IN (SELECT max(run) FROM gold_audit_run);

-- The newest ranges of each node, a row a feature, with the line that showed them first;
-- registrations are left out.
CREATE VIEW latest_node_advertisement AS
SELECT a.run, a.cluster, a.role, a.node_id, a.feature, a.min_version, a.max_version,
       a.observed_at, a.line_id
FROM silver_node_advertisement AS a
JOIN (SELECT cluster, role, node_id, max(observed_at) AS observed_at
      FROM silver_node_advertisement WHERE role IN ('broker', 'controller')
      GROUP BY cluster, role, node_id) AS n
ON a.cluster = n.cluster AND a.role = n.role AND a.node_id = n.node_id
   AND a.observed_at = n.observed_at;

-- The finalized levels of each cluster as brokers, or the /feature znode, showed them at the
-- highest epoch.
CREATE VIEW latest_finalized_features AS
SELECT DISTINCT f.cluster, f.feature, f.min_level, f.level, f.epoch
FROM silver_finalized_features AS f
JOIN (SELECT cluster, max(epoch) AS epoch
      FROM silver_finalized_features WHERE role IN ('broker', 'features_node') GROUP BY cluster) AS n
ON f.cluster = n.cluster AND f.epoch = n.epoch
WHERE f.role IN ('broker', 'features_node') AND f.level > 0;

-- The supported range and the finalized level by node, from the newest raw response. This is no
-- verdict: only the audit weighs sources and their ages.
CREATE VIEW supported_vs_finalized AS
SELECT a.cluster, a.role, a.node_id, a.feature, a.min_version, a.max_version,
       f.level AS finalized_level, a.observed_at,
       f.level >= a.min_version AND f.level <= a.max_version AS fits
FROM latest_node_advertisement AS a
JOIN latest_finalized_features AS f ON a.cluster = f.cluster AND a.feature = f.feature;
