package agent

import "cloudteam.ztgame.com/network-controller/internal/metric"

var (
	requests = metric.Counters("network_agent_requests_total",
		"Requests of the CNI plugin, by path and CNI error code (0: success; 11: try again later).", "path", "code")
	durations = metric.Histograms("network_agent_request_duration_seconds",
		"How long requests of the CNI plugin took, by path.",
		[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40}, "path")
	repairs = metric.Counters("network_agent_repairs_total",
		"Ports of Open vSwitch that the agent plugged again, or removed without a DEL, by action.", "action")
)
