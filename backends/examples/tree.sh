#!/bin/sh
# Makes the files of two USB cameras in DIR/sys and DIR/dev, for tests and for a machine
# without a camera: one with a serial number and two nodes, as most have, one without.
# Usage: tree.sh DIR
set -eu
root=$1
mkdir -p "$root/sys/bus/usb/devices" "$root/dev"

# camera PORT NAME SERIAL NODE...
camera() {
    usb=$root/sys/devices/pci0000:00/0000:00:14.0/usb1/$1
    nodes=$usb/$1:1.0/video4linux
    mkdir -p "$usb/power" "$nodes"
    ln -s "../../../devices/pci0000:00/0000:00:14.0/usb1/$1" "$root/sys/bus/usb/devices/$1"
    echo 046d >"$usb/idVendor"
    echo 0825 >"$usb/idProduct"
    echo "$2" >"$usb/product"
    [ -z "$3" ] || echo "$3" >"$usb/serial"
    echo 1 >"$usb/authorized"
    echo auto >"$usb/power/control"
    echo suspended >"$usb/power/runtime_status"
    echo 1500 >"$usb/power/active_duration"
    shift 3
    for node; do
        mkdir "$nodes/$node"
        : >"$root/dev/$node"
    done
}

camera 1-2 "HD Webcam" 8A2B3C4D video0 video1
camera 1-3 "USB 2.0 Camera" "" video2
