BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0005');
CREATE TABLE approvals (
	server VARCHAR(200) NOT NULL, 
	turn INTEGER NOT NULL, 
	kind VARCHAR(20) NOT NULL, 
	manifest VARCHAR(64) NOT NULL, 
	image VARCHAR(200) NOT NULL, 
	definition VARCHAR(64) NOT NULL, 
	who VARCHAR(200) NOT NULL, 
	why TEXT NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (server, turn)
);
CREATE TABLE audit (
	seq BIGINT NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	body TEXT NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	PRIMARY KEY (seq)
);
CREATE TABLE audit_ends (
	name VARCHAR(10) NOT NULL, 
	seq BIGINT NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "audit_ends" VALUES('anchor',0,'');
INSERT INTO "audit_ends" VALUES('head',0,'');
CREATE TABLE definitions (
	hash VARCHAR(64) NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (hash)
);
CREATE TABLE logins (
	server VARCHAR(200) NOT NULL, 
	body BLOB NOT NULL, 
	version VARCHAR(32) NOT NULL, 
	held_until FLOAT NOT NULL, 
	PRIMARY KEY (server)
);
CREATE TABLE memos (
	"key" VARCHAR(32) NOT NULL, 
	answer BLOB NOT NULL, 
	at FLOAT NOT NULL, 
	PRIMARY KEY ("key")
);
CREATE TABLE offers (
	server VARCHAR(200) NOT NULL, 
	kind VARCHAR(10) NOT NULL, 
	"key" VARCHAR(2000) NOT NULL, 
	name VARCHAR(2300) NOT NULL, 
	definition JSON NOT NULL, withheld TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (server, kind, "key"), 
	FOREIGN KEY(server) REFERENCES servers (name) ON DELETE CASCADE
);
CREATE TABLE registrations (
	server VARCHAR(200) NOT NULL, 
	manifest TEXT NOT NULL, 
	manifest_hash VARCHAR(64) NOT NULL, 
	source TEXT NOT NULL, 
	who VARCHAR(200) NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	record TEXT NOT NULL, 
	PRIMARY KEY (server)
);
CREATE TABLE schemas (
	hash VARCHAR(32) NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (hash)
);
CREATE TABLE servers (
	name VARCHAR(200) NOT NULL, 
	fingerprint VARCHAR(64) NOT NULL, 
	facts JSON NOT NULL, 
	synced_at VARCHAR(40) NOT NULL, 
	error TEXT NOT NULL, 
	notes JSON NOT NULL, judged_by VARCHAR(64) DEFAULT '' NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE spending (
	day VARCHAR(10) NOT NULL, 
	principal VARCHAR(200) NOT NULL, 
	lists BIGINT NOT NULL, 
	list_tokens BIGINT NOT NULL, 
	answers BIGINT NOT NULL, 
	answer_tokens BIGINT NOT NULL, 
	results BIGINT NOT NULL, 
	result_tokens BIGINT NOT NULL, 
	raw_tokens BIGINT NOT NULL, 
	PRIMARY KEY (day, principal)
);
CREATE TABLE standings (
	server VARCHAR(200) NOT NULL, 
	raw_name VARCHAR(1000) NOT NULL, 
	score FLOAT NOT NULL, 
	level VARCHAR(10) NOT NULL, 
	usage JSON NOT NULL, 
	PRIMARY KEY (server, raw_name)
);
CREATE TABLE state (
	id INTEGER NOT NULL, 
	generation BIGINT NOT NULL, placed_by VARCHAR(64) DEFAULT '' NOT NULL, tiers_at VARCHAR(40) DEFAULT '' NOT NULL, mended_by VARCHAR(64) DEFAULT '' NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "state" VALUES(1,0,'','','');
CREATE TABLE tokens (
	id VARCHAR(20) NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	principal VARCHAR(200) NOT NULL, 
	role VARCHAR(20) NOT NULL, 
	scope JSON NOT NULL, 
	made_by VARCHAR(200) NOT NULL, 
	made_at VARCHAR(40) NOT NULL, 
	expires_at VARCHAR(40) DEFAULT '' NOT NULL, 
	revoked_at VARCHAR(40) DEFAULT '' NOT NULL, 
	revoked_by VARCHAR(200) DEFAULT '' NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE tools (
	server VARCHAR(200) NOT NULL, 
	raw_name VARCHAR(1000) NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	title TEXT NOT NULL, 
	description TEXT NOT NULL, 
	annotations JSON NOT NULL, 
	extra JSON NOT NULL, 
	input_hash VARCHAR(32) NOT NULL, 
	output_hash VARCHAR(32) NOT NULL, 
	cost_tokens INTEGER NOT NULL, category VARCHAR(64) DEFAULT '' NOT NULL, confidence FLOAT DEFAULT '0' NOT NULL, placed_by VARCHAR(10) DEFAULT '' NOT NULL, tags JSON DEFAULT '[]' NOT NULL, use_cases JSON DEFAULT '[]' NOT NULL, use_cases_by VARCHAR(10) DEFAULT '' NOT NULL, mending JSON DEFAULT '{}' NOT NULL, raw_input_hash VARCHAR(32) DEFAULT '' NOT NULL, withheld TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (server, raw_name), 
	FOREIGN KEY(server) REFERENCES servers (name) ON DELETE CASCADE
);
CREATE TABLE usage (
	day VARCHAR(10) NOT NULL, 
	server VARCHAR(200) NOT NULL, 
	raw_name VARCHAR(1000) NOT NULL, 
	calls BIGINT NOT NULL, 
	errors BIGINT NOT NULL, 
	total_ms FLOAT NOT NULL, 
	histogram JSON NOT NULL, 
	last_used VARCHAR(40) NOT NULL, 
	PRIMARY KEY (day, server, raw_name)
);
CREATE TABLE vectors (
	model VARCHAR(100) NOT NULL, 
	digest VARCHAR(32) NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (model, digest)
);
CREATE INDEX ix_audit_at ON audit (at);
COMMIT;
