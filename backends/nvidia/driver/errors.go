package driver

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Reasons of errors, for errors.Is. Every error of this package wraps one of them, or
// is the error of the caller's context.
var (
	// ErrNoLibrary: libnvidia-ml.so.1 does not exist or cannot be loaded. Try
	// again later.
	ErrNoLibrary = errors.New("the NVIDIA driver's library libnvidia-ml.so.1 is not there")
	// ErrNoDriver: the kernel module is not loaded. Try again later.
	ErrNoDriver = errors.New("the NVIDIA driver is not loaded")
	// ErrDriverGone: the driver was unloaded, or replaced by another one, while it
	// was open. Close it, and open it again later.
	ErrDriverGone = errors.New("the NVIDIA driver went away")
	// ErrMismatch: the library does not match the kernel module. This is transient
	// while a driver is being installed; otherwise the module must be reloaded.
	ErrMismatch = errors.New("the NVIDIA library and the loaded kernel module are of different versions: " +
		"reload the kernel module or reboot the node")
	// ErrRestart: the library on disk is not the one that this process has loaded, and
	// a library cannot be unloaded. It is returned if the loaded library does not match
	// the kernel module, or if the settings name another one. Only a new process helps.
	ErrRestart = errors.New("another NVIDIA library was installed: the backend must be started again to use it")
	// ErrClosed: the driver is not open.
	ErrClosed = errors.New("the connection to the NVIDIA driver is closed")
	// ErrPermission: this process lacks permission.
	ErrPermission = errors.New("no permission: the backend must run as root and see /dev/nvidiactl and /dev/nvidia*")
	// ErrLost: the GPU has fallen off the bus, or is otherwise inaccessible.
	ErrLost = errors.New("the GPU is lost (fallen off the bus): see the kernel's log for XID 79; reboot the node")
	// ErrReset: the GPU must be reset before it can be read.
	ErrReset = errors.New("the GPU needs a reset")
	// ErrNoAnswer: a call exceeded its time limit and has not returned.
	ErrNoAnswer = errors.New("does not answer")
	// ErrNotSupported: the GPU or the driver does not support it.
	ErrNotSupported = errors.New("not supported")
	// ErrFailed: any other error of NVML.
	ErrFailed = errors.New("the call failed")
)

// CallError is the error of one call.
type CallError struct {
	// Call is the NVML function.
	Call string
	// Code is NVML's return code; 0 if the call has not returned.
	Code int
	// Reason is one of the Err variables of this package.
	Reason error
}

func (e *CallError) Error() string {
	if e.Code == 0 || errors.Is(e.Reason, ErrLost) {
		return fmt.Sprintf("%s: %v", e.Call, e.Reason)
	}
	return fmt.Sprintf("%s: %v (NVML error %d: %s)", e.Call, e.Reason, e.Code, words(nvml.Return(e.Code)))
}

// Unwrap returns the reason.
func (e *CallError) Unwrap() error { return e.Reason }

// failure returns nil for success.
func failure(call string, ret nvml.Return) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	return &CallError{Call: call, Code: int(ret), Reason: reason(ret)}
}

func reason(ret nvml.Return) error {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return ErrNoLibrary
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return ErrNoDriver
	case nvml.ERROR_UNINITIALIZED:
		return ErrDriverGone
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return ErrMismatch
	case nvml.ERROR_NO_PERMISSION:
		return ErrPermission
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_GPU_NOT_FOUND:
		return ErrLost
	case nvml.ERROR_RESET_REQUIRED:
		return ErrReset
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_DEPRECATED,
		nvml.ERROR_ARGUMENT_VERSION_MISMATCH:
		return ErrNotSupported
	default:
		return ErrFailed
	}
}

// absent reports whether a value does not exist, which is no failure.
func absent(ret nvml.Return) bool {
	return errors.Is(reason(ret), ErrNotSupported) || ret == nvml.ERROR_NO_PERMISSION || ret == nvml.ERROR_NO_DATA ||
		ret == nvml.ERROR_NOT_FOUND
}

// gone reports whether no GPU can be read any more.
func gone(err error) bool {
	return errors.Is(err, ErrDriverGone) || errors.Is(err, ErrNoDriver) || errors.Is(err, ErrMismatch)
}

// words returns NVML's text for an error. nvml.Return.Error would call the library,
// which may just have been closed.
func words(ret nvml.Return) string {
	names := map[nvml.Return]string{
		nvml.ERROR_UNINITIALIZED:             "uninitialized",
		nvml.ERROR_INVALID_ARGUMENT:          "invalid argument",
		nvml.ERROR_NOT_SUPPORTED:             "not supported",
		nvml.ERROR_NO_PERMISSION:             "no permission",
		nvml.ERROR_NOT_FOUND:                 "not found",
		nvml.ERROR_INSUFFICIENT_SIZE:         "insufficient size",
		nvml.ERROR_INSUFFICIENT_POWER:        "insufficient external power",
		nvml.ERROR_DRIVER_NOT_LOADED:         "driver not loaded",
		nvml.ERROR_TIMEOUT:                   "timeout",
		nvml.ERROR_IRQ_ISSUE:                 "interrupt request issue",
		nvml.ERROR_LIBRARY_NOT_FOUND:         "library not found",
		nvml.ERROR_FUNCTION_NOT_FOUND:        "function not found",
		nvml.ERROR_CORRUPTED_INFOROM:         "corrupted infoROM",
		nvml.ERROR_GPU_IS_LOST:               "GPU is lost",
		nvml.ERROR_RESET_REQUIRED:            "GPU requires reset",
		nvml.ERROR_OPERATING_SYSTEM:          "blocked by the operating system",
		nvml.ERROR_LIB_RM_VERSION_MISMATCH:   "driver/library version mismatch",
		nvml.ERROR_IN_USE:                    "in use by another client",
		nvml.ERROR_MEMORY:                    "insufficient memory",
		nvml.ERROR_NO_DATA:                   "no data",
		nvml.ERROR_INSUFFICIENT_RESOURCES:    "insufficient resources",
		nvml.ERROR_FREQ_NOT_SUPPORTED:        "frequency not supported",
		nvml.ERROR_ARGUMENT_VERSION_MISMATCH: "argument version mismatch",
		nvml.ERROR_DEPRECATED:                "deprecated",
		nvml.ERROR_NOT_READY:                 "not ready",
		nvml.ERROR_GPU_NOT_FOUND:             "GPU not found",
		nvml.ERROR_INVALID_STATE:             "invalid state",
		nvml.ERROR_UNKNOWN:                   "unknown error",
	}
	if name, ok := names[ret]; ok {
		return name
	}
	return "a code that this program does not know"
}

// fatal reports whether further calls on the GPU are pointless.
func fatal(err error) bool {
	return gone(err) || errors.Is(err, ErrLost) || errors.Is(err, ErrReset)
}
