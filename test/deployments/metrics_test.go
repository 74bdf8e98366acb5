package deployments

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestMetricsPort verifies that the agent listens on the port that the pod names,
// and that there is neither without metrics.
func TestMetricsPort(t *testing.T) {
	for port, args := range map[int32][]string{
		8417: nil,
		1234: {"--set", "metrics.port=1234"},
		0:    {"--set", "metrics.enabled=false"},
	} {
		container := agentContainer(t, render(t, with(args...)...))
		want := []corev1.ContainerPort{{Name: "probes", ContainerPort: 8418, Protocol: corev1.ProtocolTCP}}
		if port != 0 {
			want = slices.Insert(want, 0, corev1.ContainerPort{Name: "metrics", ContainerPort: port, Protocol: corev1.ProtocolTCP})
		}
		if diff := cmp.Diff(want, container.Ports); diff != "" {
			t.Errorf("port %d (-want +got):\n%s", port, diff)
		}
		if told := slices.Contains(container.Args, fmt.Sprintf("--metrics-address=:%d", port)); told != (port != 0) {
			t.Errorf("port %d: the agent is told %v", port, container.Args)
		}
	}
}

// TestMonitors verifies that each kind of monitor finds the agents' pods and their
// port, with what the values say of it, and leaves the holders' labels as they are.
func TestMonitors(t *testing.T) {
	const values = `{enabled: true, labels: {release: prometheus}, interval: 30s, scrapeTimeout: 5s}`
	matches := func(t *testing.T, selector metav1.LabelSelector, of map[string]string) {
		t.Helper()
		s, err := metav1.LabelSelectorAsSelector(&selector)
		if err != nil || s.Empty() || !s.Matches(labels.Set(of)) {
			t.Errorf("%s does not match %v: %v", s, of, err)
		}
	}
	monitor := func(t *testing.T, kind string) []runtime.Object {
		return render(t, with("-f", write(t, "values.yaml", kind+": "+values))...)
	}
	check := func(t *testing.T, endpoint map[string]any, relabel monitoringv1.RelabelConfig, labels map[string]string) {
		t.Helper()
		endpoint[relabel.TargetLabel] = string(relabel.SourceLabels[0])
		want := map[string]any{"interval": "30s", "timeout": "5s", "port": "metrics", "node": "__meta_kubernetes_pod_node_name", "honors": true}
		if diff := cmp.Diff(want, endpoint); diff != "" || labels["release"] != "prometheus" {
			t.Errorf("labels %v, endpoint (-want +got):\n%s", labels, diff)
		}
	}
	t.Run("pods", func(t *testing.T) {
		objects := monitor(t, "podMonitor")
		m := only[*monitoringv1.PodMonitor](t, objects)
		matches(t, m.Spec.Selector, only[*appsv1.DaemonSet](t, objects).Spec.Template.Labels)
		e := m.Spec.PodMetricsEndpoints[0]
		check(t, map[string]any{"interval": string(e.Interval), "timeout": string(e.ScrapeTimeout), "port": *e.Port, "honors": e.HonorLabels},
			e.RelabelConfigs[0], m.Labels)
	})
	t.Run("service", func(t *testing.T) {
		objects := monitor(t, "serviceMonitor")
		m, service := only[*monitoringv1.ServiceMonitor](t, objects), only[*corev1.Service](t, objects)
		matches(t, m.Spec.Selector, service.Labels)
		matches(t, metav1.LabelSelector{MatchLabels: service.Spec.Selector}, only[*appsv1.DaemonSet](t, objects).Spec.Template.Labels)
		if p := service.Spec.Ports[0]; p.Name != "metrics" || p.TargetPort.StrVal != "metrics" || service.Spec.ClusterIP != corev1.ClusterIPNone {
			t.Errorf("the Service is %+v", service.Spec)
		}
		e := m.Spec.Endpoints[0]
		check(t, map[string]any{"interval": string(e.Interval), "timeout": string(e.ScrapeTimeout), "port": e.Port, "honors": e.HonorLabels},
			e.RelabelConfigs[0], m.Labels)
	})
}

// TestRules verifies that the operator gets the groups of rules that the values choose, and Grafana's sidecar the
// dashboards. test/agent evaluates them.
func TestRules(t *testing.T) {
	for set, want := range map[string][]string{
		"dashboards.enabled=true":   {"accelmux-alerts", "accelmux-accelerator", "accelmux-dcgm"},
		"prometheusRule.dcgm=false": {"accelmux-alerts", "accelmux-accelerator"},
	} {
		objects := render(t, with("--set", "prometheusRule.enabled=true,prometheusRule.labels.release=prometheus", "--set", set)...)
		rule := only[*monitoringv1.PrometheusRule](t, objects)
		var got []string
		for _, group := range rule.Spec.Groups {
			got = append(got, group.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" || rule.Labels["release"] != "prometheus" {
			t.Errorf("%s: labels %v, groups (-want +got):\n%s", set, rule.Labels, diff)
		}
		var boards int
		for _, object := range objects {
			if m, ok := object.(*corev1.ConfigMap); ok && m.Labels["grafana_dashboard"] == "1" {
				boards++
				for name, text := range m.Data {
					if !json.Valid([]byte(text)) {
						t.Errorf("%s of %s is not JSON", name, m.Name)
					}
				}
			}
		}
		if is := set == "dashboards.enabled=true"; is != (boards == 2) {
			t.Errorf("%s: %d dashboards", set, boards)
		}
	}
}
