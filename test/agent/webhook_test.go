package agent

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/accelmux/accelmux/test/patience"
)

// drivers is a configuration of a driver with another name than its backend, and of a backend without
// a manifest.
const drivers = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - {name: mock, dra: {driver: gpu.example.com}, settings: {count: 4}}
      - {name: fpga}
      - {name: absent}
    resources: [{name: example.com/gpu, backend: mock, api: dra}]
`

// hook is a running `accelmux webhook`.
type hook struct {
	*node
	command *exec.Cmd
	client  *http.Client
	url     string
	ended   chan error
}

// startWebhook starts the program with the configuration and waits until it is ready.
func startWebhook(t *testing.T, config string) *hook {
	t.Helper()
	h := &hook{node: newNode(t), ended: make(chan error, 1)}
	server := httptest.NewTLSServer(nil) // for its certificate
	defer server.Close()
	h.client = server.Client()
	h.client.Transport.(*http.Transport).DisableKeepAlives = true
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: server.Certificate().Raw}, "tls.key": {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(h.path(name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.configure(config)
	h.command = exec.Command(filepath.Join(built.Dir(t), "accelmux"), "webhook", "--config", h.path("node.yaml"),
		"--backend-dir", built.Dir(t), "--listen", "127.0.0.1:0", "--tls-cert", h.path("tls.crt"), "--tls-key", h.path("tls.key"))
	h.command.Stderr = &h.log
	if err := h.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { h.ended <- h.command.Wait() }()
	t.Cleanup(func() { _ = h.command.Process.Kill() })
	ready := regexp.MustCompile(`msg="the webhook is ready" address=(\S+)`)
	if !patience.Within(patience.Long, func() bool { return ready.MatchString(h.log.String()) }) {
		t.Fatal("the webhook is not ready")
	}
	h.url = "https://" + ready.FindStringSubmatch(h.log.String())[1]
	return h
}

// review sends a claim with parameters for the driver.
func (h *hook) review(driver, parameters string) *admissionv1.AdmissionResponse {
	h.Helper()
	body := fmt.Sprintf(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", "operation": "CREATE",
		"kind": {"group": "resource.k8s.io", "version": "v1", "kind": "ResourceClaim"},
		"object": {"spec": {"devices": {"config": [{"opaque": {"driver": %q, "parameters":
			{"apiVersion": "accelmux.io/v1alpha1", "kind": "DeviceParameters", "parameters": %s}}}]}}}}}`, driver, parameters)
	answer, err := h.client.Post(h.url+"/validate", "application/json", strings.NewReader(body))
	if err != nil {
		h.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	var review admissionv1.AdmissionReview
	if err != nil || json.Unmarshal(data, &review) != nil || review.Response == nil {
		h.Fatalf("HTTP %d: %s, %v", answer.StatusCode, data, err)
	}
	return review.Response
}

// Verifies that the webhook checks parameters by the schemas of the real backends' manifests, for the
// drivers that the configuration names; that it accepts those of a backend whose manifest is missing
// with a warning; and that it ends at once.
func TestWebhook(t *testing.T) {
	t.Parallel()
	h := startWebhook(t, drivers)
	for _, tc := range []struct{ driver, parameters, refused, warning string }{
		{"gpu.example.com", `{"message": "hello"}`, "", ""},
		{"gpu.example.com", `{"mesage": "hello"}`, "spec.devices.config[0].opaque.parameters: the backend does not know the parameter mesage; did you mean", ""},
		{"gpu.example.com", `{"message": 7}`, "spec.devices.config[0].opaque.parameters.parameters.message: must be a text, is 7", ""},
		{"fpga.accelmux.io", `{"bitstream": "fft.xclbin"}`, "", ""},
		{"fpga.accelmux.io", `{"bitstream": ["fft.xclbin"]}`, "bitstream: must be a text, is a list", ""},
		{"mock.accelmux.io", `{"anything": 1}`, "", ""},
		{"absent.accelmux.io", `{"anything": 1}`, "", "the manifest of backend absent cannot be used"},
	} {
		answer := h.review(tc.driver, tc.parameters)
		switch {
		case tc.refused == "" && !answer.Allowed:
			t.Errorf("%s %s: %s", tc.driver, tc.parameters, answer.Result.Message)
		case tc.refused != "" && (answer.Allowed || !strings.Contains(answer.Result.Message, tc.refused)):
			t.Errorf("%s %s: %+v, want %q", tc.driver, tc.parameters, answer.Result, tc.refused)
		case tc.warning != "" != (len(answer.Warnings) == 1) || !strings.Contains(strings.Join(answer.Warnings, ""), tc.warning):
			t.Errorf("%s %s: warnings %q, want %q", tc.driver, tc.parameters, answer.Warnings, tc.warning)
		}
	}
	if !h.logged("backend=absent") || !h.logged("accelmux-backend-absent.yaml: no such file") {
		t.Error("the log does not have the backend without a manifest")
	}
	if err := h.command.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := <-h.ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}
