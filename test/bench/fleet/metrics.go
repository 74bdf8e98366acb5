package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// metrics are the API server's own, at one moment.
type metrics map[string]*dto.MetricFamily

func (a *admin) metrics(ctx context.Context) (_ metrics, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.host+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := a.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the API server's metrics: %s", answer.Status)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(answer.Body)
}

// sum adds up the counters and gauges of a name whose labels have these values.
func (m metrics) sum(name string, labels map[string]string) float64 {
	var sum float64
	for _, metric := range m[name].GetMetric() {
		matching := 0
		for _, pair := range metric.GetLabel() {
			if want, ok := labels[pair.GetName()]; ok && want == pair.GetValue() {
				matching++
			}
		}
		if matching == len(labels) {
			sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return sum
}

// cpu is the processor time of the server since its start, in seconds.
func (m metrics) cpu() float64 { return m.sum("process_cpu_seconds_total", nil) }

// memory is the server's resident memory in MB.
func (m metrics) memory() float64 { return m.sum("process_resident_memory_bytes", nil) / 1e6 }

// watches are the running watches of Nodes, the server's own included.
func (m metrics) watches() float64 {
	return m.sum("apiserver_longrunning_requests", map[string]string{"verb": "WATCH", "resource": "nodes"})
}

// watchEvents are those that were sent to watches of Nodes, and of their metadata.
func (m metrics) watchEvents() float64 {
	return m.sum("apiserver_watch_events_total", map[string]string{"resource": "nodes"})
}
