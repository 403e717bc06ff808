// Package alerts tests deploy/prometheus/rules.yaml with promtool: two healthy control planes in one
// Prometheus, in which no alert fires, and for each alert a situation in which only the named ones fire.
// The tests are skipped where promtool is missing.
package alerts
