#!/usr/bin/env bash
# Installs Chromium where it is missing, from Debian's or Ubuntu's package.
set -euo pipefail

command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null && exit
sudo=; [[ $(id -u) -eq 0 ]] || sudo=sudo
{ $sudo apt-get install -y --no-install-recommends chromium fonts-inter ||
  { $sudo apt-get update && $sudo apt-get install -y --no-install-recommends chromium fonts-inter; }; } >&2 ||
  { echo "Install Chromium: it is in Debian's package chromium." >&2; exit 1; }
