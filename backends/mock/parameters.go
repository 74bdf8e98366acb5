package mock

import (
	"strconv"
)

// parameters are what parameters.schema.json describes.
type parameters struct {
	Message        *string `json:"message"`
	Strategy       string  `json:"strategy"`
	Interval       string  `json:"interval"`
	PartitionCount *int64  `json:"partitionCount"`
	IngressBurst   int64   `json:"ingressBurst"`
	EgressBurst    int64   `json:"egressBurst"`
}

const (
	timeSlicing       = "TimeSlicing"
	spacePartitioning = "SpacePartitioning"
)

func orOne(n *int64) int64 {
	if n == nil {
		return 1
	}
	return *n
}

// noValue is in a text whose placeholder stands for nothing. No text of settings has it.
const noValue = "\x00"

// placeholders returns what placeholders for the parameters stand for: the values, or the defaults. A parameter of
// the other strategy, and a burst without a bound, stand for nothing.
func (p *parameters) placeholders() map[string]string {
	strategy := or(p.Strategy, timeSlicing)
	all := map[string]string{"message": noValue, "strategy": strategy, "interval": noValue, "partitionCount": noValue, "ingressBurst": noValue, "egressBurst": noValue}
	if p.Message != nil {
		all["message"] = *p.Message
	}
	if strategy == timeSlicing {
		all["interval"] = or(p.Interval, "Default")
	} else {
		all["partitionCount"] = strconv.FormatInt(orOne(p.PartitionCount), 10)
	}
	if p.IngressBurst > 0 {
		all["ingressBurst"] = strconv.FormatInt(p.IngressBurst, 10)
	}
	if p.EgressBurst > 0 {
		all["egressBurst"] = strconv.FormatInt(p.EgressBurst, 10)
	}
	return all
}
