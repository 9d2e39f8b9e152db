#!/usr/bin/env bash
# Prints a folder with prometheus and promtool: where they are installed, or else the files of Debian's package in the
# cache. It installs nothing, so no service starts.
set -euo pipefail

if path=$(command -v promtool) && command -v prometheus >/dev/null; then
  dirname "$path"
  exit
fi
cache=${XDG_CACHE_HOME:-$HOME/.cache}/network-controller/prometheus
if [[ ! -x $cache/usr/bin/promtool ]]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  chmod 755 "$work" # apt downloads as another user
  (cd "$work" && { apt-get download prometheus || { apt-get update && apt-get download prometheus; }; } >&2) ||
    { echo "Install prometheus and promtool: they are in Debian's package prometheus." >&2; exit 1; }
  dpkg-deb -x "$work"/prometheus_*.deb "$work/files"
  mkdir -p "$cache"
  cp -r "$work/files/usr" "$cache/"
fi
echo "$cache/usr/bin"
