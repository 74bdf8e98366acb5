//go:build !amd64

package intruder

import "errors"

var errNone = errors.New("the machine has none")

func otherCalls() error { return errNone }

func compatStatus() int { return 1 }

func ioPorts() error { return errNone }
