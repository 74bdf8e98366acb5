package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	kjson "sigs.k8s.io/json"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/test/programs"
)

const (
	fpgaSchema = `{"type": "object", "required": ["bitstream"], "additionalProperties": false, "properties": {
		"bitstream": {"type": "string", "minLength": 1, "description": "A file."},
		"slots": {"type": "integer", "minimum": 1, "description": "How many."}}}`
	mockSchema = `{"type": "object", "properties": {"message": {"type": "string", "description": "A text."}}}`
)

// testReviewer has the backends fpga and mock, one without parameters, and one whose manifest cannot be
// used. The driver of mock is also that of another program.
func testReviewer() *Reviewer {
	fpga := &inventory.Description{Parameters: []inventory.Parameter{{Name: "bitstream"}, {Name: "slots"}}, ParametersSchema: fpgaSchema}
	mock := &inventory.Description{Parameters: []inventory.Parameter{{Name: "message"}}, ParametersSchema: mockSchema}
	r := New(&config.NodeConfig{}, "", nil)
	r.backends = []backend{
		{driver: "fpga.accelmux.io", description: fpga},
		{driver: "gpu.example.com", description: mock, kinds: []config.OpaqueKind{
			{APIVersion: "gpu.resource.example.com/v1alpha1", Kind: "GpuConfig", Fields: map[string]string{"sharing.strategy": "message"}},
		}},
		{driver: "gpu.example.com", description: fpga},
		{driver: "plain.accelmux.io", description: &inventory.Description{}},
		{driver: "gone.accelmux.io", name: "gone"},
	}
	return r
}

// Verifies that a backend that several profiles have alike is one, and one that differs is another; and that the schemas are
// those of the manifests, but for one that is missing or not the pinned one.
func TestNew(t *testing.T) {
	profile := func(b config.Backend) config.Profile { return config.Profile{Backends: []config.Backend{b}} }
	mock := config.Backend{Name: "mock", Command: "accelmux-backend-mock", DRA: config.DRA{Driver: "mock.accelmux.io"}}
	fewer, other, driver := mock, mock, mock
	fewer.Settings = config.Settings(`{"count": 1}`)
	other.Command = "accelmux-backend-other"
	driver.DRA.Driver = "gpu.example.com"
	pinned := mock
	pinned.ManifestChecksum = "sha256:0"
	dir := t.TempDir()
	programs.InstallManifest(t, "../../../backends/mock", filepath.Join(dir, "accelmux-backend-mock"))
	var log strings.Builder
	r := New(&config.NodeConfig{Profiles: []config.Profile{profile(mock), profile(fewer), profile(other), profile(driver), profile(pinned)}}, dir, slog.New(slog.NewTextHandler(&log, nil)))
	var got []string
	for _, b := range r.backends {
		got = append(got, fmt.Sprint(b.driver, " ", b.command, " ", b.description != nil && b.description.ParametersSchema != ""))
	}
	want := []string{"mock.accelmux.io accelmux-backend-mock true", "mock.accelmux.io accelmux-backend-other false", "gpu.example.com accelmux-backend-mock true", "mock.accelmux.io accelmux-backend-mock false"}
	if !slices.Equal(got, want) {
		t.Errorf("backends %q, want %q", got, want)
	}
	for _, want := range []string{"accelmux-backend-other.yaml: no such file", "but the configuration pins sha256:0"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, &log)
		}
	}
}

// parameters are opaque parameters, with these fields of the object.
func parameters(fields string) string {
	return `{"apiVersion": "accelmux.io/v1alpha1", "kind": "DeviceParameters", "parameters": ` + fields + `}`
}

// gpuConfig are opaque parameters of a kind that the configuration maps for one driver.
func gpuConfig(sharing string) string {
	return `{"apiVersion": "gpu.resource.example.com/v1alpha1", "kind": "GpuConfig", "sharing": ` + sharing + `}`
}

// opaque is a configuration for a driver.
func opaque(driver, parameters string) string {
	return fmt.Sprintf(`{"requests": ["card"], "opaque": {"driver": %q, "parameters": %s}}`, driver, parameters)
}

// objects have a list of configurations, each in the place where its kind has it. They have fields
// that only some versions of the API have.
var objects = map[string]struct{ object, at string }{
	"ResourceClaim": {
		`{"metadata": {"name": "x"}, "spec": {"devices": {"requests": [{"name": "card", "deviceClassName": "fpga"}, {"name": "next", "exactly": {}}], "config": [%s]}}, "status": {}}`,
		"spec.devices.config",
	},
	"ResourceClaimTemplate": {`{"metadata": {"name": "x"}, "spec": {"metadata": {}, "spec": {"devices": {"config": [%s]}}}}`, "spec.spec.devices.config"},
	"DeviceClass":           {`{"metadata": {"name": "x"}, "spec": {"selectors": [], "config": [%s], "suitableNodes": {}}}`, "spec.config"},
}

// body is an AdmissionReview for an object; old is "" or the one that it replaces.
func body(t testing.TB, kind, version, object, old string) string {
	t.Helper()
	request := map[string]any{
		"uid": "u-1", "operation": "CREATE", "name": "x", "object": json.RawMessage(object),
		"kind": map[string]string{"group": "resource.k8s.io", "version": version, "kind": kind},
	}
	if old != "" {
		request["operation"], request["oldObject"] = "UPDATE", json.RawMessage(old)
	}
	data, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// post sends a body.
func post(r *Reviewer, body, content string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body))
	request.Header.Set("Content-Type", content)
	answer := httptest.NewRecorder()
	r.ServeHTTP(answer, request)
	return answer
}

// reviewed sends a body that must be answered.
func reviewed(t testing.TB, r *Reviewer, body string) *admissionv1.AdmissionResponse {
	t.Helper()
	answer := post(r, body, "application/json")
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(answer.Body.Bytes(), &review); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("HTTP %d: %s", answer.Code, answer.Body)
	}
	if review.Kind != "AdmissionReview" || review.APIVersion != "admission.k8s.io/v1" || review.Response == nil || review.Response.UID != "u-1" {
		t.Fatalf("answered %s", answer.Body)
	}
	return review.Response
}

// Verifies what is accepted and refused, with the place of each mistake, in every kind and version.
func TestReview(t *testing.T) {
	good := opaque("fpga.accelmux.io", parameters(`{"bitstream": "fft.xclbin"}`))
	for name, tc := range map[string]struct {
		configs string
		want    []string // "" or what the message has; AT is the place of the list
	}{
		"nothing":                    {"", nil},
		"no opaque parameters":       {`{"requests": ["card"]}`, nil},
		"good":                       {good, nil},
		"no parameters":              {opaque("plain.accelmux.io", parameters("{}")), nil},
		"a required one is missing":  {opaque("fpga.accelmux.io", parameters(`{"slots": 2}`)), nil},
		"another driver":             {opaque("gpu.nvidia.com", `{"kind": "GpuConfig", "x": 1}`), nil},
		"of the second of two":       {opaque("gpu.example.com", parameters(`{"slots": 2}`)), nil},
		"of neither of two":          {opaque("gpu.example.com", parameters(`{"size": 2}`)), []string{"AT[0].opaque.parameters: ", "parameter size; it has message"}},
		"unknown parameter":          {opaque("fpga.accelmux.io", parameters(`{"bitstrem": "x"}`)), []string{"AT[0].opaque.parameters: the backend does not know the parameter bitstrem", "bitstream"}},
		"parameter of none":          {opaque("plain.accelmux.io", parameters(`{"a": 1}`)), []string{"it has none"}},
		"wrong type":                 {good + "," + opaque("fpga.accelmux.io", parameters(`{"bitstream": 7}`)), []string{"AT[1].opaque.parameters.parameters.bitstream: must be a text, is 7; put it in quotes"}},
		"wrong value":                {opaque("fpga.accelmux.io", parameters(`{"slots": 0}`)), []string{"parameters.slots: must be a whole number of at least 1, is 0"}},
		"null":                       {opaque("fpga.accelmux.io", parameters(`{"slots": null}`)), []string{"parameters.slots: must be a whole number of at least 1, is empty"}},
		"two mistakes":               {opaque("fpga.accelmux.io", parameters(`{"slots": "1", "bitstream": ""}`)), []string{"AT[0].opaque.parameters.parameters.bitstream: must not be empty", "; AT[0].opaque.parameters.parameters.slots: must be a whole number"}},
		"wrong kind":                 {opaque("fpga.accelmux.io", `{"apiVersion": "gpu.resource.example.com/v1", "kind": "GpuConfig"}`), []string{`AT[0].opaque.parameters: apiVersion "gpu.resource.example.com/v1"`, "accepts only DeviceParameters of accelmux.io/v1alpha1;"}},
		"of a mapped kind":           {opaque("gpu.example.com", gpuConfig(`{"strategy": "x"}`)), nil},
		"mapped kind, wrong type":    {opaque("gpu.example.com", gpuConfig(`{"strategy": 7}`)), []string{"AT[0].opaque.parameters.sharing.strategy: must be a text, is 7"}},
		"mapped kind, unknown field": {opaque("gpu.example.com", gpuConfig(`{"interval": 1}`)), []string{"AT[0].opaque.parameters: the driver cannot apply the field sharing.interval of GpuConfig: it accepts sharing.strategy;"}},
		"mapped kind, duplicate":     {opaque("gpu.example.com", gpuConfig(`{"strategy": "x", "strategy": "y"}`)), []string{`duplicate field "sharing.strategy"`}},
		"mapped for another driver":  {opaque("fpga.accelmux.io", gpuConfig(`{"strategy": "x"}`)), []string{`apiVersion "gpu.resource.example.com/v1alpha1" and kind "GpuConfig"`}},
		"unknown field":              {opaque("fpga.accelmux.io", `{"apiVersion": "accelmux.io/v1alpha1", "kind": "DeviceParameters", "params": {}}`), []string{`AT[0].opaque.parameters: unknown field "params"`}},
		"parameters are no object":   {opaque("fpga.accelmux.io", parameters("[]")), []string{"AT[0].opaque.parameters: "}},
		"all that are too many":      {strings.TrimSuffix(strings.Repeat(opaque("fpga.accelmux.io", parameters(`{"slots": 0}`))+",", 20), ","), []string{"AT[15]", "and 4 more"}},
		"too long":                   {opaque("fpga.accelmux.io", parameters(`{"bitstream": "`+strings.Repeat("x", maxParameters)+`"}`)), []string{"AT[0].opaque.parameters: they have 61", "the API server accepts 10240"}},
		"good ones of other drivers": {opaque("gpu.nvidia.com", "{}") + "," + opaque("fpga.accelmux.io", parameters(`{"x": 0}`)), []string{"AT[1]"}},
	} {
		for kind, object := range objects {
			for _, version := range []string{"v1", "v1beta1", "v1beta2"} {
				t.Run(strings.Join([]string{name, kind, version}, "/"), func(t *testing.T) {
					answer := reviewed(t, testReviewer(), body(t, kind, version, fmt.Sprintf(object.object, tc.configs), ""))
					if answer.Allowed != (tc.want == nil) || len(answer.Warnings) > 0 {
						t.Fatalf("allowed: %v, %+v, warnings %q", answer.Allowed, answer.Result, answer.Warnings)
					}
					for _, want := range tc.want {
						if want = strings.ReplaceAll(want, "AT", object.at); !strings.Contains(answer.Result.Message, want) || strings.Contains(answer.Result.Message, "\n") {
							t.Errorf("the message is %q, want %q in it", answer.Result.Message, want)
						}
					}
				})
			}
		}
	}
}

// Verifies that parameters for a backend whose manifest cannot be used are accepted with a warning,
// also if another backend of the driver refuses them.
func TestBackendWithoutManifest(t *testing.T) {
	r := testReviewer()
	r.backends = append(r.backends, backend{driver: "fpga.accelmux.io", name: "later"})
	for driver, name := range map[string]string{"gone.accelmux.io": "gone", "fpga.accelmux.io": "later"} {
		object := fmt.Sprintf(objects["DeviceClass"].object, opaque(driver, parameters(`{"a": 1}`)))
		answer := reviewed(t, r, body(t, "DeviceClass", "v1", object, ""))
		want := "accelmux did not check spec.config[0].opaque.parameters: the manifest of backend " + name + " cannot be used"
		if !answer.Allowed || len(answer.Warnings) != 1 || !strings.Contains(answer.Warnings[0], want) {
			t.Errorf("allowed: %v, warnings %q, want %q", answer.Allowed, answer.Warnings, want)
		}
	}
}

// Verifies that parameters are accepted with a warning whose check by the schema would not end: each level of this value is
// checked twice.
func TestSchemaBomb(t *testing.T) {
	r := testReviewer()
	const bomb = `{"type": "object", "properties": {"x": {"$ref": "#/$defs/a", "description": "X."}}, "$defs": {"a": {"allOf": [{"properties": {"a": {"$ref": "#/$defs/a"}}}, {"additionalProperties": {"$ref": "#/$defs/a"}}]}}}`
	r.backends = append(r.backends, backend{driver: "bomb.accelmux.io", name: "bomb", description: &inventory.Description{Parameters: []inventory.Parameter{{Name: "x"}}, ParametersSchema: bomb}})
	value := strings.Repeat(`{"a": `, 50) + "1" + strings.Repeat("}", 50)
	object := fmt.Sprintf(objects["DeviceClass"].object, opaque("bomb.accelmux.io", parameters(`{"x": `+value+`}`)))
	answer := reviewed(t, r, body(t, "DeviceClass", "v1", object, ""))
	if !answer.Allowed || len(answer.Warnings) != 1 || !strings.Contains(answer.Warnings[0], "evaluates more than 1000000 of its parts") {
		t.Errorf("allowed: %v, warnings %q", answer.Allowed, answer.Warnings)
	}
}

// Verifies that an update that does not change wrong parameters is accepted, so that finalizers can be
// removed, and that one that changes them is not.
func TestUpdate(t *testing.T) {
	object := func(slots string) string {
		return fmt.Sprintf(objects["DeviceClass"].object, opaque("fpga.accelmux.io", parameters(`{"slots": `+slots+`}`)))
	}
	for _, tc := range []struct {
		old, next string
		allowed   bool
	}{{"0", "0", true}, {"0", "1", true}, {"1", "0", false}, {"0", `"x"`, false}} {
		if answer := reviewed(t, testReviewer(), body(t, "DeviceClass", "v1", object(tc.next), object(tc.old))); answer.Allowed != tc.allowed {
			t.Errorf("from %s to %s: allowed %v, want %v", tc.old, tc.next, answer.Allowed, tc.allowed)
		}
	}
	if answer := reviewed(t, testReviewer(), strings.Replace(body(t, "DeviceClass", "v1", object("0"), ""), `"CREATE"`, `"DELETE"`, 1)); !answer.Allowed {
		t.Error("a deletion is refused")
	}
}

// Verifies that what the webhook cannot answer is an HTTP error, which the failurePolicy is for.
func TestRequestsThatAreRefused(t *testing.T) {
	object := fmt.Sprintf(objects["DeviceClass"].object, "")
	good := body(t, "DeviceClass", "v1", object, "")
	for name, tc := range map[string]struct {
		body, content string
		status        int
		want          string
	}{
		"not JSON":            {"a: b", "application/json", 400, "decode the AdmissionReview"},
		"nothing":             {"", "application/json", 400, "decode the AdmissionReview"},
		"another media type":  {good, "text/plain", 415, `"text/plain", not application/json`},
		"no media type":       {good, "", 415, "not application/json"},
		"too large":           {`{"x": "` + strings.Repeat("x", maxBody) + `"}`, "application/json", 413, "larger than 4194304 bytes"},
		"no review":           {"{}", "application/json", 400, "no AdmissionReview of admission.k8s.io/v1"},
		"an older version":    {strings.Replace(good, "admission.k8s.io/v1", "admission.k8s.io/v1beta1", 1), "application/json", 400, "no AdmissionReview of admission.k8s.io/v1"},
		"no request":          {`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}`, "application/json", 400, "with a request"},
		"no UID":              {strings.Replace(good, `"uid":"u-1"`, `"uid":""`, 1), "application/json", 400, "with a request and its UID"},
		"another kind":        {body(t, "ResourceSlice", "v1", object, ""), "application/json", 400, "not ResourceSlice of resource.k8s.io/v1: correct the rules"},
		"another version":     {body(t, "DeviceClass", "v2", object, ""), "application/json", 400, "not DeviceClass of resource.k8s.io/v2"},
		"another group":       {strings.Replace(good, `"resource.k8s.io"`, `"apps"`, 1), "application/json", 400, "not DeviceClass of apps/v1"},
		"many configurations": {body(t, "DeviceClass", "v1", fmt.Sprintf(objects["DeviceClass"].object, strings.Repeat(`{},`, 32)+"{}"), ""), "application/json", 400, "spec.config has 33 entries: the API server accepts 32"},
		"another structure":   {body(t, "DeviceClass", "v1", `{"spec": []}`, ""), "application/json", 400, "decode the DeviceClass"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := post(testReviewer(), tc.body, tc.content)
			if answer.Code != tc.status || !strings.Contains(answer.Body.String(), tc.want) {
				t.Errorf("HTTP %d: %.300s, want %d: %s", answer.Code, answer.Body, tc.status, tc.want)
			}
		})
	}
	if answer := post(testReviewer(), good, "application/json; charset=utf-8"); answer.Code != 200 {
		t.Errorf("with a charset: HTTP %d", answer.Code)
	}
}

// Verifies that a refusal is short, whatever is refused, and that a flood of requests is not one of lines
// in the log.
func TestShortRefusals(t *testing.T) {
	r := testReviewer()
	var log strings.Builder
	r.log = slog.New(slog.NewTextHandler(&log, nil))
	long := opaque("fpga.accelmux.io", `{"apiVersion": "`+strings.Repeat("x", 2*maxMessage)+`", "kind": "K"}`)
	object := fmt.Sprintf(objects["DeviceClass"].object, strings.TrimSuffix(strings.Repeat(long+",", 32), ","))
	for range 3 * logBurst {
		answer := reviewed(t, r, body(t, "DeviceClass", "v1", object, ""))
		if n := len(answer.Result.Message); answer.Allowed || n < maxMessage || n > 2*maxMessages*maxMessage {
			t.Fatalf("allowed: %v, a message of %d bytes", answer.Allowed, n)
		}
		post(r, "{}", "application/json")
	}
	if n := strings.Count(log.String(), "\n"); n < logBurst || n > 2*logBurst {
		t.Errorf("%d lines in the log", n)
	}
}

// Verifies that few requests are reviewed at once: others wait, get an error of the server if that takes
// too long, and are reviewed when there is room.
func TestReviewsAtOnce(t *testing.T) {
	r := testReviewer()
	good := body(t, "DeviceClass", "v1", fmt.Sprintf(objects["DeviceClass"].object, ""), "")
	for range reviews {
		r.places <- struct{}{}
	}
	usual := r.wait
	r.wait = 10 * time.Millisecond
	if answer := post(r, good, "application/json"); answer.Code != http.StatusServiceUnavailable {
		t.Errorf("beside %d others: HTTP %d", reviews, answer.Code)
	}
	r.wait = usual
	<-r.places
	if answer := post(r, good, "application/json"); answer.Code != http.StatusOK {
		t.Errorf("after one of the others: HTTP %d", answer.Code)
	}
}

// slow is a request whose body comes in parts.
type slow struct {
	t      *testing.T
	writer *io.PipeWriter
	status chan int
}

// begin sends a part of a request, which the reviewer has received then.
func begin(t *testing.T, r *Reviewer, part string) *slow {
	t.Helper()
	reader, writer := io.Pipe()
	s := &slow{t: t, writer: writer, status: make(chan int, 1)}
	go func() {
		request := httptest.NewRequest(http.MethodPost, Path, reader)
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		r.ServeHTTP(answer, request)
		_ = reader.Close() // as the server does
		s.status <- answer.Code
	}()
	if _, err := io.WriteString(writer, part); err != nil {
		t.Fatal(err)
	}
	return s
}

// end sends the rest, and returns the answer's status.
func (s *slow) end(part string) int {
	_, err := io.WriteString(s.writer, part)
	if err := errors.Join(err, s.writer.Close()); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		s.t.Error(err)
	}
	return <-s.status
}

// Verifies that any number of clients that do not send the rest of their requests keep no other one from
// its answer, and are answered themselves if they send it.
func TestSlowBodies(t *testing.T) {
	r := testReviewer()
	good := body(t, "DeviceClass", "v1", fmt.Sprintf(objects["DeviceClass"].object, ""), "")
	var all []*slow
	for range 10 * reviews {
		all = append(all, begin(t, r, good[:1]))
	}
	if answer := post(r, good, "application/json"); answer.Code != http.StatusOK {
		t.Errorf("beside %d others: HTTP %d", len(all), answer.Code)
	}
	for _, s := range all {
		if status := s.end(good[1:]); status != http.StatusOK {
			t.Errorf("a slow client gets HTTP %d", status)
		}
	}
}

// Verifies that the bodies in memory are bounded, and that the one which has taken longest gives way.
func TestBodiesAreBounded(t *testing.T) {
	r := testReviewer()
	good := body(t, "DeviceClass", "v1", fmt.Sprintf(objects["DeviceClass"].object, ""), "")
	const part = maxUploads / reviews
	first := begin(t, r, strings.Repeat(" ", part))
	var others []*slow
	for range reviews - 1 {
		others = append(others, begin(t, r, strings.Repeat(" ", part-len(good))))
	}
	for range 3 {
		if answer := post(r, good, "application/json"); answer.Code != http.StatusOK {
			t.Errorf("beside %d large ones: HTTP %d", reviews, answer.Code)
		}
	}
	last := begin(t, r, strings.Repeat(" ", part))
	if status := first.end(" "); status != http.StatusServiceUnavailable {
		t.Errorf("the first gets HTTP %d", status)
	}
	for _, s := range append(others, last) {
		if status := s.end(""); status != http.StatusBadRequest { // it has no object
			t.Errorf("a later one gets HTTP %d", status)
		}
	}
	if held := r.uploads.held; held != 0 || len(r.uploads.receiving) > 0 {
		t.Errorf("%d bytes of %d requests are held after the last", held, len(r.uploads.receiving))
	}
}

// FuzzServeHTTP verifies that no body makes the webhook panic, that it answers with a review of the
// same UID or an HTTP error of the client, and that a refusal has a message.
func FuzzServeHTTP(f *testing.F) {
	configs := opaque("fpga.accelmux.io", parameters(`{"slots": 0}`)) + "," + opaque("gpu.example.com", parameters(`{"message": "x"}`)) + "," + opaque("gpu.nvidia.com", "[]")
	for kind, object := range objects {
		whole := fmt.Sprintf(object.object, configs)
		f.Add(body(f, kind, "v1", whole, ""))
		f.Add(body(f, kind, "v1beta1", whole, fmt.Sprintf(object.object, "")))
	}
	f.Add("{}")
	r := testReviewer()
	f.Fuzz(func(t *testing.T, body string) {
		answer := post(r, body, "application/json")
		if answer.Code >= 400 && answer.Code < 500 && answer.Body.Len() > 0 {
			return
		}
		var review, sent admissionv1.AdmissionReview
		if err := json.Unmarshal(answer.Body.Bytes(), &review); err != nil || answer.Code != http.StatusOK || review.Response == nil {
			t.Fatalf("HTTP %d: %s", answer.Code, answer.Body)
		}
		if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(body), &sent); err != nil || review.Response.UID != sent.Request.UID {
			t.Fatalf("the answer has the UID %q, %v", review.Response.UID, err)
		}
		if !review.Response.Allowed && review.Response.Result.Message == "" {
			t.Fatal("a refusal without a message")
		}
	})
}
