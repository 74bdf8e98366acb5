package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/test/amdtree"
	"github.com/accelmux/accelmux/test/host"
	"github.com/accelmux/accelmux/test/patience"
)

// monitoring is where the chart has its rules and dashboards.
const monitoring = "../../deployments/helm/accelmux/monitoring"

// Verifies with a real Prometheus, which reads the metrics of agents with mock devices, NVIDIA's and AMD's GPUs, that
// the chart's rules and the queries of its dashboards can be evaluated and have values, and those of NVIDIA's
// dashboard for its exporter (12239).
func TestPrometheus(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		host.Lacks(t, "the program prometheus is not installed")
	}
	mock := startNode(t, 4, strings.Replace(oneBackend, "count: 4", "count: 4, memory: 16Gi", 1), withMetrics, quickUsage)
	mock.scenario("devices: {mock-3: {fault: {code: hot, recovery: self}}}")
	mock.allocate("team/train", gpu, 1)
	nvidia := startNVIDIA(t, 2, withMetrics)
	p := startPrometheus(t, program, map[string]*node{"mock": mock, "nvidia": nvidia, "amd": startMeasuredAMD(t)})
	for _, q := range []string{
		"DCGM_FI_DEV_GPU_TEMP{instance=~\".*\", gpu=~\"GPU-.*\"}", "avg(DCGM_FI_DEV_GPU_TEMP)", "sum(DCGM_FI_DEV_POWER_USAGE)", "DCGM_FI_DEV_SM_CLOCK * 1000000",
		"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_MEM_COPY_UTIL",
		"accelerator_gpu_utilization{node=\"mock\"}", "accelerator_gpu_utilization{node=\"amd\"}", "accelerator_memory_used_bytes", "accelerator_memory_total_bytes", "accelerator_power_usage_watts",
		"accelerator_temperature_celsius", "accelerator_sm_clock_hertz{node=\"nvidia\"}", "accelerator_sm_clock_hertz{node=\"amd\"}", "accelerator_memory_clock_hertz",
		`ALERTS{alertname="AccelmuxDeviceUnhealthy", device="mock-3", code="hot"}`,
	} {
		p.has(t, q)
	}
	for _, name := range []string{"cluster", "node"} {
		for title, targets := range dashboard(t, name) {
			p.has(t, targets...)
			t.Logf("%s: %s: %d queries", name, title, len(targets))
		}
	}
	p.rulesWork(t)
}

// startMeasuredAMD starts a node with AMD's GPUs.
func startMeasuredAMD(t *testing.T) *node {
	t.Helper()
	tree := amdtree.New(t, amdtree.NewMixed())
	n := newNode(t)
	n.startKubelet()
	n.configure(chartExample(t, "amd.yaml"))
	options := n.options()
	withMetrics(&options)
	options.HostPaths = agent.HostPaths{Procfs: n.path("proc"), Devfs: tree.Devfs(), Sysfs: tree.Sysfs()}
	n.startAgentWith(options)
	return n
}

// dashboard returns the queries of a dashboard by panel, and those of its variables, with the values of one node.
func dashboard(t *testing.T, name string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(monitoring, "dashboard-"+name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Query string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	values := strings.NewReplacer("=~\"$node\"", "=~\".*\"", "$node", "mock", "$device", ".*", "$__rate_interval", "30s")
	all := map[string][]string{}
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			all[panel.Title] = append(all[panel.Title], values.Replace(target.Expr))
		}
	}
	for _, variable := range board.Templating.List {
		if inner, ok := strings.CutPrefix(variable.Query, "label_values("); ok {
			series, label, _ := strings.Cut(strings.TrimSuffix(inner, ")"), ", ")
			all["$"+variable.Name] = []string{fmt.Sprintf("count by (%s) (%s)", label, values.Replace(series))}
		}
	}
	if len(all) < 10 {
		t.Fatalf("dashboard %s has %d panels", name, len(all))
	}
	return all
}

// prometheus is one that runs.
type prometheus struct{ url string }

// startPrometheus starts one that scrapes the nodes, by their names.
func startPrometheus(t *testing.T, program string, nodes map[string]*node) *prometheus {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs(filepath.Join(monitoring, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config := "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [" + rules + "]\nscrape_configs:\n- job_name: accelmux\n  honor_labels: true\n  static_configs:\n"
	for name, n := range nodes {
		n.eventually("metrics are served", func() bool { return n.agent.MetricsAddress() != "" })
		config += fmt.Sprintf("  - {targets: [%q], labels: {node: %s}}\n", n.agent.MetricsAddress(), name)
	}
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") // for a port that is free
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var log strings.Builder
	command := exec.CommandContext(ctx, program, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	command.Stderr = &log
	if err := command.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = command.Wait() // it was killed
		if t.Failed() {
			t.Log(log.String())
		}
	})
	p := &prometheus{"http://" + address}
	patience.Until(t, "Prometheus answers", func() bool { return p.get(t, "/-/ready", nil) })
	return p
}

// get reads an answer into a value, and reports whether there is one.
func (p *prometheus) get(t *testing.T, path string, into any) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false // it does not listen yet
	}
	defer func() { _ = response.Body.Close() }()
	if into == nil {
		return response.StatusCode == http.StatusOK
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
	return true
}

// has waits until one of the queries of a panel has a value; none may be wrong.
func (p *prometheus) has(t *testing.T, queries ...string) {
	t.Helper()
	patience.Until(t, fmt.Sprintf("one of %q has a value", queries), func() (has bool) {
		for _, query := range queries {
			var answer struct {
				Error string
				Data  struct{ Result []any }
			}
			if p.get(t, "/api/v1/query?query="+url.QueryEscape(query), &answer); answer.Error != "" {
				t.Fatalf("%s: %s", query, answer.Error)
			}
			has = has || len(answer.Data.Result) > 0
		}
		return has
	})
}

// rulesWork checks that Prometheus could evaluate all rules.
func (p *prometheus) rulesWork(t *testing.T) {
	t.Helper()
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	p.get(t, "/api/v1/rules", &answer)
	count := 0
	for _, group := range answer.Data.Groups {
		for _, rule := range group.Rules {
			if count++; rule.Health != "ok" {
				t.Errorf("rule %s is %s: %s", rule.Name, rule.Health, rule.LastError)
			}
		}
	}
	if count < 20 {
		t.Errorf("there are %d rules", count)
	}
}
