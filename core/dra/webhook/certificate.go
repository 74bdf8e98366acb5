package webhook

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
)

// Certificate is a certificate with its key in two PEM files. The files are read again for each
// connection, so that a renewed certificate (by cert-manager, for instance) is used at once. While they
// cannot be used, the last good one is.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu   sync.Mutex
	last *tls.Certificate
	// problem is the last error of reading the files, "" if there was none.
	problem string
}

// LoadCertificate reads a certificate. The error is for the operator.
func LoadCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log}
	if c.read(); c.last == nil {
		return nil, fmt.Errorf("read the certificate for HTTPS: %s", c.problem)
	}
	return c, nil
}

// Get returns the certificate for a connection. It is a GetCertificate of [tls.Config].
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read()
	return c.last, nil
}

// read reads the files. A new problem is logged.
func (c *Certificate) read() {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	problem := ""
	if err != nil {
		problem = err.Error()
	} else {
		c.last = &pair
	}
	if problem != "" && problem != c.problem && c.last != nil {
		c.log.Warn("the certificate cannot be read again; the earlier one stays in use", "file", c.certFile, "error", problem)
	}
	c.problem = problem
}
