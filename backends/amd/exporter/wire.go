package exporter

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/accelmux/accelmux/backends/pci"
)

const (
	// maxGPUs bounds the GPUs, and maxText a string, of an answer.
	maxGPUs = 1024
	maxText = 256
)

// The fields of the messages, by number.
const (
	responseState protowire.Number = 1
	stateHealth   protowire.Number = 3
	stateDevice   protowire.Number = 5
)

var errOdd = errors.New("malformed answer")

// parse reads a GPUStateResponse. Fields that are not known are left out.
func parse(message []byte) ([]GPU, error) {
	var gpus []GPU
	err := fields(message, func(number protowire.Number, value []byte) error {
		if number != responseState {
			return nil
		}
		if len(gpus) == maxGPUs {
			return fmt.Errorf("%w: more than %d GPUs", errOdd, maxGPUs)
		}
		gpu, err := parseGPU(value)
		gpus = append(gpus, gpu)
		return err
	})
	if err != nil {
		return nil, err
	}
	return gpus, nil
}

// parseGPU reads a GPUState.
func parseGPU(message []byte) (GPU, error) {
	var gpu GPU
	var device string
	texts := map[protowire.Number]*string{
		stateHealth: &gpu.Text, stateDevice: &device,
	}
	err := fields(message, func(number protowire.Number, value []byte) error {
		text := texts[number]
		switch {
		case text == nil:
		case len(value) > maxText || !utf8.Valid(value):
			return fmt.Errorf("%w: field %d of a GPU is no text of up to %d bytes", errOdd, number, maxText)
		default:
			*text = string(value)
		}
		return nil
	})
	if err != nil {
		return GPU{}, err
	}
	// Older exporters do not report where a GPU is, and others may one day write it
	// otherwise: then it is not known.
	if at, err := pci.ParseAddress(device); err == nil {
		gpu.PCI, gpu.HasPCI = at, true
	}
	switch strings.ToLower(gpu.Text) {
	case "healthy":
		gpu.State = Healthy
	case "unhealthy":
		gpu.State = Unhealthy
	}
	return gpu, nil
}

// fields calls found with the fields of a message that are bytes, strings or messages, in
// their order.
func fields(message []byte, found func(protowire.Number, []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("%w: %w", errOdd, protowire.ParseError(n))
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
				return fmt.Errorf("%w: %w", errOdd, protowire.ParseError(n))
			}
			message = message[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return fmt.Errorf("%w: %w", errOdd, protowire.ParseError(n))
		}
		if err := found(number, value); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}
