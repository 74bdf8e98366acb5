package supervisor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

const (
	// certificateLife is longer than any process lives; a clock that is late by
	// clockSkew at the start does no harm.
	certificateLife, clockSkew = 30 * 365 * 24 * time.Hour, time.Minute
	// certificateName is the name in both certificates, as go-plugin has it.
	certificateName = "localhost"
)

// MutualTLS returns the core's side of one connection to a backend, with a certificate for
// this start, which the backend gets as PEM. RootCAs is empty: the backend's own certificate
// comes with its handshake.
//
// It is go-plugin's AutoMTLS, but for the curve: the certificate and the verifying of
// it on P-521 take as long as all the rest of a backend's start, as Go has no fast
// code for it.
func MutualTLS() (config *tls.Config, certificate string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", fmt.Errorf("make a key: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: certificateName}, DNSNames: []string{certificateName},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(certificateLife),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true, // its own issuer
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, "", fmt.Errorf("make a certificate: %w", err)
	}
	config = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		MinVersion:   tls.VersionTLS12, ServerName: certificateName,
		// Nobody, until the handshake has named one: the system's roots have no say.
		RootCAs: x509.NewCertPool(),
	}
	return config, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}
