package pod

import "cloudteam.ztgame.com/network-controller/internal/metric"

var portsDuration = metric.Histogram("network_controller_pod_ports_duration_seconds",
	"Time from a Pod's creation until it had its ports and could be scheduled. The API server's times are whole seconds.",
	[]float64{1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600})
