# livegym without a checkout, for training runs and pages on a server:
#
#   docker build -t livegym .
#   docker run --rm -v "$PWD/runs:/data/runs" livegym
#   docker run --rm -v "$PWD/runs:/data/runs" livegym livegym config=train_headless task=Ant seed=1
#
# `docker stop` sends SIGTERM: the training run saves its last state, and ends. Windows and videos need more than this image.
FROM python:3.11-slim

WORKDIR /livegym
COPY . .
RUN pip install --no-cache-dir --constraint constraints.txt '.[launchers]'
RUN livegym --list-tasks

WORKDIR /data
EXPOSE 58080
CMD ["livegym", "config=train_headless", "task=Cartpole"]
