package webhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// writeCertificate writes a certificate with the serial number, and its key, to tls.crt and tls.key.
func writeCertificate(t *testing.T, dir string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "webhook"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// serving is a server that serves a reviewer until the test ends.
type serving struct {
	dir, address string
	log          strings.Builder
	stop         context.CancelFunc
	ended        chan error
}

func serveTest(t *testing.T) *serving {
	t.Helper()
	s := &serving{dir: t.TempDir(), ended: make(chan error, 1)}
	writeCertificate(t, s.dir, 1)
	log := slog.New(slog.NewTextHandler(&s.log, nil))
	certificate, err := LoadCertificate(filepath.Join(s.dir, "tls.crt"), filepath.Join(s.dir, "tls.key"), log)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	go func() { s.ended <- Serve(ctx, listener, testReviewer(), certificate, log) }()
	t.Cleanup(func() {
		stop()
		if err := <-s.ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return s
}

// client makes a connection of its own, and stores the serial number of the server's certificate.
func (s *serving) client(serial *int64) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, // the test compares the certificates
		VerifyConnection: func(state tls.ConnectionState) error {
			*serial = state.PeerCertificates[0].SerialNumber.Int64()
			return nil
		},
	}}}
}

// get returns the status of a GET request, its body, and the serial number.
func (s *serving) get(t *testing.T, path string) (status int, text string, serial int64) {
	t.Helper()
	answer, err := s.client(&serial).Get("https://" + s.address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(data), serial
}

// Verifies the paths of the server, and that it ends at once.
func TestServe(t *testing.T) {
	s := serveTest(t)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, Path: 405, "/": 404} {
		if status, text, _ := s.get(t, path); status != want {
			t.Errorf("GET %s: HTTP %d %s, want %d", path, status, text, want)
		}
	}
	var serial int64
	answer, err := s.client(&serial).Post("https://"+s.address+Path, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if _ = answer.Body.Close(); answer.StatusCode != http.StatusBadRequest {
		t.Errorf("POST %s: HTTP %d", Path, answer.StatusCode)
	}
}

// Verifies that a renewed certificate is used from the next connection on, and that the last good one
// is used while the files are broken, with one line in the log.
func TestRenewedCertificate(t *testing.T) {
	s := serveTest(t)
	want := func(what string, want int64) {
		t.Helper()
		if _, _, serial := s.get(t, "/readyz"); serial != want {
			t.Errorf("%s: certificate %d, want %d", what, serial, want)
		}
	}
	want("at the start", 1)
	writeCertificate(t, s.dir, 2)
	want("after the renewal", 2)
	if err := os.Remove(filepath.Join(s.dir, "tls.key")); err != nil {
		t.Fatal(err)
	}
	want("without the key", 2)
	want("without the key", 2)
	writeCertificate(t, s.dir, 3)
	want("when it is good again", 3)
	s.stop()
	err := <-s.ended
	s.ended <- err
	if log := s.log.String(); strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, "the earlier one stays in use") {
		t.Errorf("log:\n%s", log)
	}
}

// Verifies the error for files that cannot be used at the start.
func TestLoadCertificate(t *testing.T) {
	dir := t.TempDir()
	_, err := LoadCertificate(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), slog.Default())
	if err == nil || !strings.Contains(err.Error(), "read the certificate for HTTPS: open "+dir+"/tls.crt: no such file") {
		t.Errorf("got %v", err)
	}
}
