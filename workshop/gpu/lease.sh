#!/usr/bin/env bash
# Everything that needs a GPU, in one run of at most eight minutes: usage: workshop/gpu/lease.sh OUT [DEVICE] [SHAPE]
#
# Needs Python with torch, transformers, pytest and specplan's own dependencies (PYTHON names it), no network. OUT gets
# at most eight files; each stage has a budget, and one that fails leaves the others' results. Called again with the
# same OUT, a calibration goes on where it stopped. On a CPU, `lease.sh OUT cpu SHAPE` with the config.json of a tiny
# shape rehearses all of it.
set -u
out=${1:?usage: lease.sh OUT [DEVICE] [SHAPE]} device=${2:-cuda:0} shape=${3:-qwen3-8b}
python=${PYTHON:-python3} work=${WORK:-$out.work} root=$(cd "$(dirname "$0")/../.." && pwd)
layers=${LAYERS:-} draft_shape=${DRAFT_SHAPE:-qwen3-0.6b} judge_shape=${JUDGE_SHAPE:-qwen3-1.7b}
answers=${ANSWERS:-12} dtype=bfloat16 mark=gpu
[ "$device" = cpu ] && dtype=float32 mark="not gpu"
mkdir -p "$out" "$work" && out=$(cd "$out" && pwd) && work=$(cd "$work" && pwd) || exit 1
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" HF_HUB_OFFLINE=1
cd "$root" || exit 1
printf 'stage\tstatus\tseconds\n' > "$out/stages.tsv"

stage() { # NAME BUDGET_S COMMAND...: its output goes to OUT/log.txt, its status and duration to OUT/stages.tsv
    local name=$1 budget=$2 began=$SECONDS status
    shift 2
    printf '\n== %s: %s\n' "$name" "$*" >> "$out/log.txt"
    timeout --signal=TERM --kill-after=15 "$budget" "$@" >> "$out/log.txt" 2>&1 < /dev/null
    status=$?
    printf '%s\t%d\t%d\n' "$name" "$status" $((SECONDS - began)) | tee -a "$out/stages.tsv"
    return $status
}

roles() { printf -- '--%s\n%s\n' target "$work/pair/target" draft "$work/pair/draft" judge "$work/pair/judge" eagle "$work/pair/eagle"; }
mapfile -t models < <(roles)
specplan=("$python" -m specplan)
shapes=(--shape "$shape" --draft-shape "$draft_shape" --judge-shape "$judge_shape" --draft-layers "${DRAFT_LAYERS:-3}"
    --judge-layers "${JUDGE_LAYERS:-8}")
[ -n "$layers" ] && shapes+=(--layers "$layers")

stage machine "${MACHINE_S:-30}" "$python" -c 'import torch, transformers; print(torch.__version__, transformers.__version__)
for n in range(torch.cuda.device_count()): print(torch.cuda.get_device_properties(n), torch.cuda.mem_get_info(n))'
[ -d "$work/pair" ] || stage widen 90 "${specplan[@]}" pair widen "${shapes[@]}" --dtype "$dtype" -o "$work/pair"
stage calibrate "${CALIBRATE_S:-200}" "${specplan[@]}" calibrate torch "${models[@]}" --device "$device" --dtype "$dtype" \
    --candidates 0 --token-answers "$answers" -n "$answers" --allow-noise --force -o "$out/torch.json"
[ -f "$out/torch.json" ] && stage validate "${VALIDATE_S:-120}" "${specplan[@]}" validate -p "$out/torch.json" \
    --run 'lr-async k1=1' --run 'lr-async k1=2' --run 'lr-async k1=4' --run 'lr-async k1=8' \
    --run 'draft-model k2=4' --run 'lr-async k1=4 + draft-model k2=4' --run 'prompt-lookup k2=4' \
    --answers "$answers" --json --force -o "$out/validation.json"
stage tests "${TESTS_S:-120}" "$python" -m pytest -q -p no:cacheprovider -m "$mark" --junitxml "$out/tests.xml" \
    "${TESTS:-tests/calibrate/engines/torch/cuda}"
awk -F '\t' 'NR > 1 && $2 != 0 { failed = 1 } END { exit failed }' "$out/stages.tsv"
